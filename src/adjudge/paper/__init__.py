"""The paper's data and experiments: fetch the public votes, run its protocol, compare its figures with ours."""
