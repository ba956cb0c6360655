"""Before a network: pictures and frames of cameras to what it takes."""
