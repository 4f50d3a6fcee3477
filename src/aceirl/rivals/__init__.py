"""Methods of other papers, one file each, as strategies, algorithms and certificates over the same engine.

None is registered by a short name: they are named by a dotted name, as in `strategy="aceirl.rivals.us_irl.UsIrl"`.
"""
