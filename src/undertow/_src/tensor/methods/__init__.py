"""Methods of tensors that are no functions of a family of ops: conversion, copies, layout, Python's protocols."""
