"""What may see the truth: experiments, their analysis and their pictures."""
