"""Triton kernels, loaded where a device asks for them: one module each, beside its torch twin.

A module has a kernel and a function `plan_...` that says how it is launched for given tensors. It
computes from shapes, strides and addresses alone, so that launches of pools that are not there
can be compiled and measured.
"""
