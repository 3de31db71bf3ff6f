"""The page of the live service, for the people who run it: rendered here, on the data that the HTTP interface answers from."""
