"""Downloads: whole, resumed, broken, wrong, through a proxy, and not at all."""

import socket

import pytest

import adjudge as adj
from adjudge.evaluation.datasets import COMMITS, SETS, get
from loopback import serving


@pytest.mark.parametrize("name", SETS)
def test_the_public_files_become_the_known_votes_byte_for_byte(name, data_dir, tmp_path):
    with serving(data_dir / "raw") as (address, seen):
        get(SETS[name], tmp_path, address)
    assert len(seen) == len(SETS[name].files)
    for file in ("votes.csv", "truth.csv"):
        assert (tmp_path / name / file).read_bytes() == (data_dir / name / file).read_bytes()


def test_a_broken_connection_resumes_where_it_stopped(tiny, tmp_path):
    which, mirror = tiny
    size, steps = which.size, []
    with serving(mirror, cut_at=1000, cuts=2) as (address, seen):
        get(which, tmp_path / "d", address, lambda file, here: steps.append(here))
    assert [asked for _, asked in seen] == [None, "bytes=1000-", "bytes=2000-"]
    assert steps == sorted(steps)
    assert steps[-1] == size
    assert len((tmp_path / "d/tiny/votes.csv").read_text().splitlines()) == 301


def test_an_interrupted_run_goes_on_in_the_next(tiny, tmp_path):
    which, mirror = tiny
    with (
        serving(mirror, cut_at=500) as (address, _),
        pytest.raises(adj.AdjudgeError, match=r"ended after 1500 of 2700 bytes: run this again"),
    ):
        get(which, tmp_path / "d", address)
    assert not (tmp_path / "d" / "tiny").exists()
    with serving(mirror) as (address, seen):
        get(which, tmp_path / "d", address)
        get(which, tmp_path / "d", address)
    assert [asked for _, asked in seen] == ["bytes=1500-"], "the second time nothing is fetched"
    assert not list(tmp_path.rglob("*.part"))


def test_a_server_without_ranges_sends_all_again(tiny, tmp_path):
    which, mirror = tiny
    with serving(mirror, cut_at=500, cuts=1, ranges=False) as (address, seen):
        get(which, tmp_path, address)
    assert len(seen) == 2
    assert (tmp_path / "tiny" / "votes.csv").is_file()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda body: body.replace(b"ann", b"ann"[::-1]).replace(b"bob", b"bib"), "has sha256"),
        (lambda body: body + b"more", "has 2701 bytes, not 2700"),
    ],
)
def test_a_wrong_file_is_refused_and_not_kept(tiny, tmp_path, change, message):
    which, mirror = tiny
    with serving(mirror, change=change) as (address, _), pytest.raises(adj.InputError, match=message):
        get(which, tmp_path / "d", address)
    assert not [p for p in (tmp_path / "d").rglob("*") if p.is_file()]


def test_files_placed_by_hand_will_do(tiny, tmp_path):
    which, mirror = tiny
    place = tmp_path / "d" / "raw" / which.files[0].place
    place.parent.mkdir(parents=True)
    place.write_bytes((mirror / which.files[0].place).read_bytes())
    get(which, tmp_path / "d", "http://127.0.0.1:9")  # nobody listens there
    assert (tmp_path / "d" / "tiny" / "votes.csv").is_file()
    place.write_bytes(b"something else")
    with pytest.raises(adj.InputError, match="has 14 bytes, not 2700: remove it"):
        get(which, tmp_path / "d")


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (503, 3)])
def test_the_servers_refusal_is_reported(tiny, tmp_path, status, tries):
    which, mirror = tiny
    with (
        serving(mirror, status=status) as (address, seen),
        pytest.raises(adj.AdjudgeError, match=f"says {status} .* place it at .*votes.txt and run"),
    ):
        get(which, tmp_path, address)
    assert len(seen) == tries


def test_no_network(tiny, tmp_path):
    which, _ = tiny
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(
        adj.AdjudgeError, match="refused; without a network, fetch https://raw.githubusercontent.com/.* elsewhere"
    ):
        get(which, tmp_path, f"http://127.0.0.1:{port}")


def test_a_proxy_of_the_environment_is_used(tiny, tmp_path, monkeypatch):
    which, mirror = tiny
    with serving(mirror) as (proxy, seen):
        monkeypatch.setenv("http_proxy", proxy)
        get(which, tmp_path, "http://mirror.invalid")
    assert seen == [(f"http://mirror.invalid/{next(iter(COMMITS))}/some%20data/votes.txt", None)]


def test_addresses(tiny, tmp_path):
    file = SETS["sp"].files[0]
    assert file.url() == (
        "https://raw.githubusercontent.com/orchidproject/active-crowd-toolkit/2c0c194e85ca126545bd830d811ec39151bdd448/Data/SP.csv"
    )
    with pytest.raises(adj.InputError, match="base-url is 'ftp://x'"):
        get(tiny[0], tmp_path, "ftp://x")


def test_a_folder_that_cannot_be_written(tiny, tmp_path):
    (tmp_path / "raw").write_text("a file in the way")
    with pytest.raises(adj.AdjudgeError, match="cannot write into"):
        get(tiny[0], tmp_path)


def test_a_raw_file_that_is_not_what_the_registry_says(tiny, tmp_path):
    from dataclasses import replace

    from adjudge.evaluation.datasets import convert

    which, mirror = tiny
    with pytest.raises(adj.InputError, match="tiny has 300 votes, not 5"):
        convert(replace(which, votes=5), mirror, tmp_path / "out")
    (mirror / which.files[0].place).write_bytes(b"only\ttwo\n")
    with pytest.raises(adj.InputError, match="as the registry says"):
        convert(which, mirror, tmp_path / "out")
