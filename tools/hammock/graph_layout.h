#pragma once
/// Where the nodes of a graph lie on a page: boxes of kernels in layers from top to bottom, and
/// nodes in layers within their box. Takes time that is linear in nodes and edges, but for sorting.

#include <vector>

namespace hammock::tool {

struct LayoutNode {
  std::vector<int> inputs;  ///< earlier nodes
  int kernel = -1;          ///< the box it is in; -1: none
  double width = 0, height = 0;
  double x = 0, y = 0;  ///< set by LayOut: the upper left corner
};

struct LayoutBox {
  double x = 0, y = 0, width = 0, height = 0;
};

struct Layout {
  std::vector<LayoutBox> kernels;
  double width = 0, height = 0;
};

/// Places the nodes and `kernels` boxes around those that are in one; an empty box has no size.
Layout LayOut(std::vector<LayoutNode>& nodes, int kernels);

}  // namespace hammock::tool
