"""The learner: one engine driven by ask and tell, what it collects, and what a turn comes to."""
