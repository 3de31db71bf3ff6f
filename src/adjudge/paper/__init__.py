"""The paper's data and experiments: fetch the public votes, run its protocol, set its figures beside ours."""
