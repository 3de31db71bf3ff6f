"""Files, patterns, standard input, Arrow producers, iterators of batches: the same votes from all of them."""

import gzip
import io
import subprocess
import sys
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import adjudge as adj

FRAME = adj.simulate(tasks=500, workers=20, labels=3, votes_per_task=3, seed=5).votes
WANTED = adj.aggregate(FRAME).labels


def labels(source, **options):
    return adj.aggregate(source, **options).labels


def write(folder, frame=FRAME, name="votes"):
    """Every format; returns {format: path}."""
    out = {s: folder / f"{name}.{s}" for s in ("csv", "tsv", "jsonl", "parquet", "arrow", "csv.gz", "jsonl.gz", "csv.zst")}
    frame.write_csv(out["csv"])
    frame.write_csv(out["tsv"], separator="\t")
    frame.write_ndjson(out["jsonl"])
    frame.write_parquet(out["parquet"], row_group_size=400)
    frame.write_ipc(out["arrow"])
    for plain in ("csv", "jsonl"):
        out[f"{plain}.gz"].write_bytes(gzip.compress(out[plain].read_bytes()))
    frame.lazy().sink_csv(out["csv.zst"], compression="zstd")
    return out


def test_formats(tmp_path):
    for name, path in write(tmp_path).items():
        assert labels(path).equals(WANTED), name


def test_arrow_stream_files(tmp_path):
    FRAME.write_ipc_stream(tmp_path / "s.arrow")
    assert labels(tmp_path / "s.arrow").equals(WANTED)


def test_patterns_and_lists_of_files_are_read_in_order(tmp_path):
    for n, part in enumerate(FRAME.iter_slices(400)):
        part.write_csv(tmp_path / f"part-{n}.csv")
    assert labels(str(tmp_path / "part-*.csv")).equals(WANTED)
    assert labels(sorted(tmp_path.glob("*.csv"))).equals(WANTED)
    with pytest.raises(adj.InputError, match="no file matches"):
        adj.read(str(tmp_path / "nope-*.csv"))


def test_a_file_may_have_a_name_like_a_pattern(tmp_path):
    FRAME.write_csv(tmp_path / "votes[1].csv")
    assert labels(str(tmp_path / "votes[1].csv")).equals(WANTED)


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "parquet", "arrow", "csv.gz"])
def test_standard_input(tmp_path, monkeypatch, form):
    data = write(tmp_path)[form].read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert labels("-").equals(WANTED)


def producers():
    table = FRAME.to_arrow()
    return {
        "pyarrow table": table,
        "pyarrow reader": pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=100)),
        "record batches": iter(table.to_batches(max_chunksize=100)),
        "list of record batches": table.to_batches(max_chunksize=100),
        "iterator of polars frames": FRAME.iter_slices(100),
        "iterator of pandas frames": (part.to_pandas() for part in FRAME.iter_slices(100)),
        "Hugging Face dataset": datasets.Dataset(FRAME.to_arrow(compat_level=pl.CompatLevel.oldest())),
        "capsule alone": Capsule(FRAME),
        "polars categorical": FRAME.with_columns(pl.all().cast(pl.Categorical)),
        "polars enum": FRAME.with_columns(pl.col("label").cast(pl.Enum(["l2", "l1", "l0"]))),
        "pyarrow dictionary": pa.table({c: pa.array(FRAME[c].to_list()).dictionary_encode() for c in FRAME.columns}),
        "pandas categorical": FRAME.to_pandas().astype("category"),
        "pyarrow large_string": table.cast(pa.schema([(c, pa.large_string()) for c in FRAME.columns])),
        "pyarrow string": table.cast(pa.schema([(c, pa.string()) for c in FRAME.columns])),
    }


class Capsule:
    """Has the Arrow interface and nothing else."""

    def __init__(self, frame):
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema=None):
        return self._frame.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("name", producers())
def test_producers(name):
    got = labels(producers()[name])
    wanted = labels(FRAME, labels=["l2", "l1", "l0"]) if name == "polars enum" else WANTED  # an Enum orders the labels
    assert pl.DataFrame(got).with_columns(pl.col("task", "label").cast(pl.String)).equals(wanted)


def test_duckdb_relations(tmp_path):
    """In a process of its own: duckdb reports leaks of its own when Python ends."""
    FRAME.write_parquet(tmp_path / "v.parquet")
    code = (
        "import duckdb, adjudge as adj, sys\n"
        "votes = duckdb.sql(f\"select * from '{sys.argv[1]}'\")\n"
        "adj.aggregate(votes).labels.write_parquet(sys.argv[2])\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, tmp_path / "v.parquet", tmp_path / "l.parquet"], check=True, capture_output=True, timeout=120
    )
    got = pl.read_parquet(tmp_path / "l.parquet")
    assert got.sort("task").equals(WANTED.sort("task"))


def test_results_come_back_in_the_kind_of_the_batches():
    assert isinstance(labels(producers()["record batches"]), pa.Table)
    assert isinstance(labels(producers()["iterator of pandas frames"]), pd.DataFrame)


def test_integers_of_every_width():
    numbers = FRAME.with_columns(pl.all().str.slice(1).cast(pl.Int64))
    wanted = labels(numbers)
    for dtype in (pl.Int16, pl.UInt32, pl.UInt64, pl.Float64):
        assert labels(numbers.cast(dtype)).equals(wanted), dtype


def test_batches_of_different_types_are_refused():
    with pytest.raises(adj.InputError, match="the task ids are of kind string in one part of the source and integer in another"):
        adj.read(iter([FRAME.head(5), FRAME.tail(5).with_columns(task=pl.lit(1))]))


def test_a_batch_of_nothing_but_abstentions():
    parts = [FRAME.head(6).with_columns(label=pl.lit(None)), FRAME.tail(6)]
    for order in (parts, parts[::-1]):
        with pytest.warns(adj.MissingLabels, match="6 of 12"):
            assert len(adj.read(iter(order))) == 6


def test_text_and_typed_files_do_not_mix(tmp_path):
    paths = write(tmp_path)
    with pytest.raises(adj.InputError, match="text files and typed files cannot be read together"):
        adj.read([paths["csv"], paths["parquet"]])


def damaged(folder):
    """{name: (path, what the message says)}"""
    paths = write(folder, pl.concat([FRAME] * 40))
    packed = bytearray(paths["csv.gz"].read_bytes())
    packed[len(packed) // 2] ^= 0xFF
    (folder / "damaged.csv.gz").write_bytes(packed)
    (folder / "cut.csv.gz").write_bytes(bytes(paths["csv.gz"].read_bytes())[:-20])
    data = bytearray(paths["parquet"].read_bytes())
    middle = len(data) // 3
    data[middle : middle + 600] = bytes(600)
    (folder / "group.parquet").write_bytes(data)
    lines = paths["csv"].read_text().splitlines()
    lines[30_000] = "t,w,l,extra,extra"
    (folder / "line.csv").write_text("\n".join(lines))
    lines[30_000] = 't,"w" x,l'
    (folder / "quote.csv").write_text("\n".join(lines))
    return {
        "damaged gz": (folder / "damaged.csv.gz", "cannot read .*damaged.csv.gz"),
        "cut gz": (folder / "cut.csv.gz", "cannot read .*cut.csv.gz"),
        "row group": (folder / "group.parquet", "cannot read .*group.parquet"),
        "line": (folder / "line.csv", "line 30001 has 5 fields, the header 3: correct or remove that line"),
    }


def test_damage_in_the_middle_is_reported(tmp_path):
    for name, (path, message) in damaged(tmp_path).items():
        with pytest.raises(adj.InputError, match=message):
            adj.read(path)
        assert name


def test_a_source_that_changes_while_it_is_read(tmp_path):
    from adjudge.io import files

    pl.concat([FRAME] * 40).write_csv(tmp_path / "v.csv")
    reading = files.batches(tmp_path / "v.csv", dict.fromkeys(("task", "worker", "label")))
    next(reading)
    with (tmp_path / "v.csv").open("a") as more:
        more.write("t,w,l0\n")
    with pytest.raises(adj.InputError, match="changed while it was read"):
        list(reading)


def test_tuples_in_many_batches(monkeypatch):
    from adjudge.io import records

    monkeypatch.setattr(records, "RECORD_BATCH_ITEMS", 7)
    assert labels(FRAME.rows()).equals(WANTED)
    with pytest.raises(adj.InputError, match="task in row 16 is 5 of type int"):
        adj.read([*FRAME.rows()[:15], (5, "w", "l"), ("t", "w", "l")])


def test_two_codings_agree():
    """The compiled coder and the polars one, batch by batch, with missing labels."""
    from adjudge.io.encode import CompiledCoder, PolarsCoder
    from adjudge.kernels.cpu import compiled

    if compiled() is None:
        pytest.skip("no compiled core")
    frame = FRAME.with_columns(label=pl.when(pl.int_range(pl.len()) % 7 > 0).then("label"))
    coders = [PolarsCoder(), CompiledCoder(compiled(), 2)]
    for part in frame.iter_slices(97):
        for coder in coders:
            coder.add(part)
    one, two = (coder.finish() for coder in coders)
    for role in one.codes:
        assert np.array_equal(one.codes[role], two.codes[role])
        assert one.ids[role].ids() == two.ids[role].ids()


@pytest.mark.parametrize(("separator", "said"), [(",", "txt"), ("\t", r"txt, separated by '\t'"), (";", "txt, separated by ';'")])
def test_txt_files_have_the_separator_of_their_header(separator, said, tmp_path):
    FRAME.write_csv(tmp_path / "votes.txt", separator=separator)
    found = adj.read(tmp_path / "votes.txt")
    assert found.understood.format == f"table ({said})"
    assert len(found) == len(FRAME)


@pytest.mark.parametrize("address", ["https://example.com/votes.csv", "s3://bucket/votes.parquet", "gs://a/votes-*.csv"])
def test_remote_addresses(address):
    for source in (address, [address], Path(address)):
        with pytest.raises(adj.InputError, match=f"^{address.partition(':')[0]}:.* is a remote address, and files are read from"):
            adj.aggregate(source)
    with pytest.raises(adj.InputError, match="remote address"):
        adj.aggregate(FRAME, gold=address)
    with pytest.raises(adj.InputError, match="remote address"):
        adj.evaluate({"t": "x"}, address)


def test_what_looks_like_an_address_may_be_a_file(tmp_path, monkeypatch):
    (tmp_path / "s3:").mkdir()
    FRAME.write_csv(tmp_path / "s3:" / "votes.csv")
    monkeypatch.chdir(tmp_path)
    assert len(adj.read("s3:/votes.csv")) == len(FRAME)
