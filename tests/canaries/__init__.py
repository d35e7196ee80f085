"""Canaries: the behaviours of Lance that Quire's design rests on, one test each.

Nothing here touches Quire. A canary that fails after an upgrade of pylance says that Lance changed, not that Quire
has a bug: read its docstring for what rests on the behaviour and what to do. Some canaries pin a *defect* that Quire
works around; when one of those fails, the workaround may go. Never loosen an assertion only to make an upgrade pass.
"""
