"""What backends share: the order of calls, rules of memory and of matrix products, the vendor's libraries and their structures."""
