"""A real JupyterLab in a real Chromium, driven by the keyboard."""
