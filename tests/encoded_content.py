"""What an encoded folder holds, to be compared."""


def content(votes):
    """What votes say, without their order: {task: sorted (worker, label)}, and the panel."""
    worker, texts = votes.row_worker(), votes.tasks.ids()
    by_task = {
        texts[t]: [(votes.workers[int(worker[r])], votes.labels[int(votes.row_label[r])]) for r in votes.row[a:b]]
        for t, (a, b) in enumerate(zip(votes.task_ptr[:-1].tolist(), votes.task_ptr[1:].tolist(), strict=True))
    }
    rows = dict(
        zip(
            [(votes.workers[int(w)], votes.labels[int(c)]) for w, c in zip(worker, votes.row_label, strict=True)],
            votes.votes_per_row().tolist(),
            strict=True,
        )
    )
    return (
        by_task,
        rows,
        votes.workers.ids(),
        votes.labels.ids(),
        sorted(votes.unvoted.ids()),
        votes.abstentions,
        None if votes.abstained is None else votes.abstained.tolist(),
        votes.duplicates,
    )


def files(folder):
    """Every file of a folder but the note of where its votes came from."""
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.name != "source.json"}
