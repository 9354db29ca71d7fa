#pragma once
/// Graphs are compared as text, so that a failure is a line diff.
///   EXPECT_GRAPH(FoldCasts(before), R"(
///     %0 = input : f32[4]
///     return %0)");

#include <gtest/gtest.h>

#include "hammock/ir/graph.h"

#define EXPECT_GRAPH(graph, text) \
  EXPECT_EQ(::hammock::ToText(graph), ::hammock::ToText(::hammock::ParseGraph(text)))
