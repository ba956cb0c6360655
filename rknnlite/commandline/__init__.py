"""What commands share, those of plugins too: arguments, and the devices that they name."""
