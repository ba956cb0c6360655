"""Programs beside Python: built on first use and kept, run in processes of their own."""
