"""Methods of tensors that belong to no family of ops: conversion, copies, layout, Python's protocols."""
