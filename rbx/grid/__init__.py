"""The labelled prompt grid."""
