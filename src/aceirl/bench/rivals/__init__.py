"""Methods of other papers, one file each, as strategies, algorithms and certificates over the same engine.

None is registered by a short name; a dotted name does, as in `strategy="aceirl.bench.rivals.us_irl.UsIrl"`.
"""
