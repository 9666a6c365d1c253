"""Modules in Google's Model Explorer: `model-explorer step.hlo --extensions=hloom.api.model_explorer`.

Model Explorer imports `main.py`, whose classes it registers: an adapter, which returns the graphs of a file, and
providers of node data, which colour them. Both return what `hloom.page` shows. To change that, edit `inspection/page`;
to add a kind of file, add its suffix in `main.py`.
"""
