"""Every table and figure of the paper, measured again: `make reproduce`.

A suite declares tasks: one method on one split of one data set. A runner carries them
out in processes and appends what it finds to a file of JSON lines; a report reads these
files and makes tables and pictures. `benchmarks/` shares the protocol and the records.

The paper: Arbel and Gretton, Kernel Conditional Exponential Family, AISTATS 2018.
"""
