#include "graph_layout.h"

#include <algorithm>
#include <numeric>

namespace hammock::tool {

namespace {

constexpr double kNodeGap = 14, kRowGap = 26;   // within a box
constexpr double kBoxGap = 28, kLayerGap = 56;  // between boxes
constexpr double kPadding = 12, kHeader = 24;   // of a box
constexpr int kOrderSweeps = 6, kPlaceSweeps = 8;

/// A box, or a node that is in none.
struct Item {
  std::vector<int> nodes;
  std::vector<int> before, after;  // items, each once
  double width = 0, height = 0;
  double x = 0, y = 0;
  int layer = 0;
  int kernel = -1;

  double center() const { return x + width / 2; }
};

void Unique(std::vector<int>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

class Placer {
 public:
  Placer(std::vector<LayoutNode>& nodes, int kernels) : nodes_(nodes), kernels_(kernels) {}

  Layout Place() {
    MakeItems();
    for (Item& item : items_) PlaceNodes(item);
    FindLayers();
    OrderLayers();
    PlaceItems();
    return Finish();
  }

 private:
  void MakeItems() {
    std::vector<int> item_of_kernel(kernels_, -1);
    item_of_.resize(nodes_.size());
    row_.resize(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      int kernel = nodes_[i].kernel;
      int item = kernel < 0 ? -1 : item_of_kernel[kernel];
      if (item < 0) {
        item = static_cast<int>(items_.size());
        items_.emplace_back().kernel = kernel;
        if (kernel >= 0) item_of_kernel[kernel] = item;
      }
      items_[item].nodes.push_back(static_cast<int>(i));
      item_of_[i] = item;
    }
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (int input : nodes_[i].inputs) {
        int from = item_of_[input], to = item_of_[i];
        if (from == to) continue;
        items_[from].after.push_back(to);
        items_[to].before.push_back(from);
      }
    }
    for (Item& item : items_) {
      Unique(item.before);
      Unique(item.after);
    }
  }

  /// Rows of nodes relative to the item, each centred.
  void PlaceNodes(Item& item) {
    std::vector<std::vector<int>> rows;
    for (int id : item.nodes) {
      int row = 0;
      for (int input : nodes_[id].inputs) {
        if (item_of_[input] == item_of_[id]) row = std::max(row, row_[input] + 1);
      }
      if (row >= std::ssize(rows)) rows.resize(row + 1);
      rows[row].push_back(id);
      row_[id] = row;
    }
    auto width_of = [&](const std::vector<int>& row) {
      double width = -kNodeGap;
      for (int id : row) width += nodes_[id].width + kNodeGap;
      return width;
    };
    double inner = 0;
    for (const auto& row : rows) inner = std::max(inner, width_of(row));
    bool boxed = item.kernel >= 0;
    double y = boxed ? kHeader : 0;
    for (auto& row : rows) {
      SortByInputs(row);
      double x = (boxed ? kPadding : 0) + (inner - width_of(row)) / 2, height = 0;
      for (int id : row) {
        LayoutNode& node = nodes_[id];
        node.x = x;
        node.y = y;
        x += node.width + kNodeGap;
        height = std::max(height, node.height);
      }
      y += height + kRowGap;
    }
    item.width = inner + (boxed ? 2 * kPadding : 0);
    item.height = y - kRowGap + (boxed ? kPadding : 0);
  }

  void SortByInputs(std::vector<int>& row) {
    auto middle = [&](int id) {
      double sum = 0;
      int count = 0;
      for (int input : nodes_[id].inputs) {
        if (item_of_[input] != item_of_[id]) continue;
        sum += nodes_[input].x + nodes_[input].width / 2;
        ++count;
      }
      return count == 0 ? 0.0 : sum / count;
    };
    std::stable_sort(row.begin(), row.end(), [&](int a, int b) { return middle(a) < middle(b); });
  }

  /// Longest paths; what needs nothing lies just above its first user.
  void FindLayers() {
    std::vector<int> missing(items_.size());
    std::vector<int> ready;
    for (size_t i = 0; i < items_.size(); ++i) {
      missing[i] = static_cast<int>(items_[i].before.size());
      if (missing[i] == 0) ready.push_back(static_cast<int>(i));
    }
    for (size_t next = 0; next < ready.size(); ++next) {
      for (int user : items_[ready[next]].after) {
        Item& item = items_[user];
        item.layer = std::max(item.layer, items_[ready[next]].layer + 1);
        if (--missing[user] == 0) ready.push_back(user);
      }
    }
    int last = 0;
    for (Item& item : items_) {
      if (item.before.empty() && !item.after.empty()) {
        item.layer = items_[item.after[0]].layer - 1;
        for (int user : item.after) {
          item.layer = std::min(item.layer, items_[user].layer - 1);
        }
      }
      last = std::max(last, item.layer);
    }
    layers_.resize(last + 1);
    for (size_t i = 0; i < items_.size(); ++i) {
      layers_[std::max(items_[i].layer, 0)].push_back(static_cast<int>(i));
    }
  }

  void OrderLayers() {
    std::vector<double> place(items_.size());
    auto number = [&](const std::vector<int>& layer) {
      for (size_t i = 0; i < layer.size(); ++i) place[layer[i]] = static_cast<double>(i);
    };
    for (const auto& layer : layers_) number(layer);
    for (int sweep = 0; sweep < kOrderSweeps; ++sweep) {
      bool down = sweep % 2 == 0;
      for (size_t k = 0; k < layers_.size(); ++k) {
        auto& layer = layers_[down ? k : layers_.size() - 1 - k];
        std::vector<std::pair<double, int>> keyed;
        for (int item : layer) {
          const auto& others = down ? items_[item].before : items_[item].after;
          double sum = 0;
          for (int other : others) sum += place[other];
          keyed.emplace_back(
              others.empty() ? place[item] : sum / static_cast<double>(others.size()), item);
        }
        std::stable_sort(keyed.begin(), keyed.end(),
                         [](const auto& a, const auto& b) { return a.first < b.first; });
        for (size_t i = 0; i < keyed.size(); ++i) layer[i] = keyed[i].second;
        number(layer);
      }
    }
  }

  void PlaceItems() {
    double y = 0;
    for (auto& layer : layers_) {
      double x = 0, height = 0;
      for (int id : layer) height = std::max(height, items_[id].height);
      for (int id : layer) {
        Item& item = items_[id];
        item.x = x;
        // Inputs hang just above what uses them.
        item.y = item.before.empty() ? y + height - item.height : y;
        x += item.width + kBoxGap;
      }
      y += height + kLayerGap;
    }
    for (int sweep = 0; sweep < kPlaceSweeps; ++sweep) {
      bool down = sweep % 2 == 0;
      for (size_t k = 0; k < layers_.size(); ++k) {
        PullTogether(layers_[down ? k : layers_.size() - 1 - k], down);
      }
    }
  }

  /// Moves the items of a layer towards what they are connected with, in their order.
  void PullTogether(const std::vector<int>& layer, bool down) {
    double right = -1e300, moved = 0;
    for (int id : layer) {
      Item& item = items_[id];
      const auto& others = down ? item.before : item.after;
      double wanted = item.x;
      if (!others.empty()) {
        double sum = 0;
        for (int other : others) sum += items_[other].center();
        wanted = sum / static_cast<double>(others.size()) - item.width / 2;
      }
      item.x = std::max(wanted, right);
      moved += item.x - wanted;
      right = item.x + item.width + kBoxGap;
    }
    double back = layer.empty() ? 0 : moved / static_cast<double>(layer.size());
    for (int id : layer) items_[id].x -= back;
  }

  Layout Finish() {
    Layout layout;
    layout.kernels.resize(kernels_);
    double left = 1e300;
    for (const Item& item : items_) left = std::min(left, item.x);
    for (Item& item : items_) {
      item.x -= left;
      for (int id : item.nodes) {
        nodes_[id].x += item.x;
        nodes_[id].y += item.y;
      }
      if (item.kernel >= 0) {
        layout.kernels[item.kernel] = {item.x, item.y, item.width, item.height};
      }
      layout.width = std::max(layout.width, item.x + item.width);
      layout.height = std::max(layout.height, item.y + item.height);
    }
    return layout;
  }

  std::vector<LayoutNode>& nodes_;
  const int kernels_;
  std::vector<Item> items_;
  std::vector<int> item_of_;  // by node
  std::vector<int> row_;      // by node
  std::vector<std::vector<int>> layers_;
};

}  // namespace

Layout LayOut(std::vector<LayoutNode>& nodes, int kernels) {
  if (nodes.empty()) return {std::vector<LayoutBox>(kernels), 0, 0};
  return Placer(nodes, kernels).Place();
}

}  // namespace hammock::tool
