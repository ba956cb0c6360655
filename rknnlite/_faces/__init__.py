"""What the faces share: their log lines, and the vendor's files under our import names. Private to them."""
