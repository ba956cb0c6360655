"""Programs of others that run on rknnlite, unmodified: which, how, and what comes out of them."""
