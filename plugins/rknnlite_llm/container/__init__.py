"""What lies in the files of a language model package: description, architecture, weights by name."""
