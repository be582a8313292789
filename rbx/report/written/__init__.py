"""Tables as files: CSV for a spreadsheet, Markdown for a note, LaTeX for a paper."""
