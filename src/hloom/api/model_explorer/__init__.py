"""Modules in Google's Model Explorer: `model-explorer step.hlo --extensions=hloom.api.model_explorer`.

Model Explorer imports `main.py`, whose classes it registers: an adapter, which gives graphs of a file, and a provider
of node data, which colours them. Both give what `hloom.page` shows. To change what is shown, edit `hloom/page`; to add
a kind of file, its suffix in `main.py`.
"""
