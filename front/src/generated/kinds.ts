/** The kinds of pictures. Written by tools/write_front_data.py, not by hand. */
export const KINDS = [
  {"name": "heads", "key": "1", "label": "view.heads", "traces": 1, "needsImage": false, "inFindings": true},
  {"name": "heatmap", "key": "2", "label": "view.heatmap", "traces": 1, "needsImage": false, "inFindings": true},
  {"name": "highlight", "key": "3", "label": "view.highlight", "traces": 1, "needsImage": false, "inFindings": true},
  {"name": "flow", "key": "4", "label": "view.flow", "traces": 1, "needsImage": false, "inFindings": true},
  {"name": "overlay", "key": "5", "label": "view.overlay", "traces": 1, "needsImage": true, "inFindings": false},
  {"name": "compare", "key": "6", "label": "view.compare", "traces": 2, "needsImage": false, "inFindings": false},
] as const;
