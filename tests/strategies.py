"""Generated crowds for the property tests."""

from hypothesis import strategies as st


@st.composite
def crowds(draw, max_tasks=8, max_workers=5, max_labels=4, max_votes=40):
    """Lists of (task, worker, label), repeats allowed, small enough for the naive oracle, rich in ties."""
    labels = draw(st.integers(1, max_labels))
    vote = st.tuples(
        st.integers(0, max_tasks - 1).map("t{}".format),
        st.integers(0, max_workers - 1).map("w{}".format),
        st.integers(0, labels - 1).map("l{}".format),
    )
    return draw(st.lists(vote, min_size=1, max_size=max_votes))
