"""Commands that compare, measure and look on."""
