"""Accuracy on datasets: mean average precision, top-1, words."""
