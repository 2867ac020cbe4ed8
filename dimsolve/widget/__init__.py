"""The playground in a notebook: `explore` is the public function, `widget` the anywidget itself."""
