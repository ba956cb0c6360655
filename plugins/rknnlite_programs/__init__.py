"""Programs beside Python: built on first use and kept, run in processes of their own.

``buildcache``, ``childprocess``; ``toolkit_process`` with ``toolkit_script``: the vendor's toolkit for PCs.
"""
