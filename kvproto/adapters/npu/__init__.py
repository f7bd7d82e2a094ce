"""Huawei Ascend devices, torch device type `npu`."""
