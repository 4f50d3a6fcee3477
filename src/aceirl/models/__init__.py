"""What the learner believes of an environment and an expert: one model a folder."""
