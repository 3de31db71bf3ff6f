"""What each route does: checked values in, answers out; the work is the campaign's."""
