#pragma once
/// Functions on schemas for the files of this folder: conversion of bound values, and the map from
/// argument types to attributes.

#include <string>
#include <string_view>

#include "hammock/ir/attr.h"
#include "hammock/ir/schema.h"

namespace hammock {

/// As written in schemas: "Tensor", "ScalarType".
std::string_view BaseNameOf(SchemaType::Base base);

/// `value`, which `type` accepts, in the form that bodies expect: numbers for a `float` are floats,
/// bools for an `int` are ints, one number for an `int[2]` is a list of two.
Any ConvertArgument(const SchemaType& type, const Any& value);

/// Whether arguments of that type can be attributes of a node.
bool CanBeAttribute(const SchemaType& type);
/// Whether `attr` is a valid attribute for an argument of that type.
bool AttrFits(const SchemaType& type, const Attr& attr);
/// A bound argument as an attribute.
Attr MakeAttr(const SchemaType& type, const Any& value);

}  // namespace hammock
