"""What a policy does to given probabilities: a try at home, without a campaign."""
