"""What a decision may depend on, kept ready between decisions."""
