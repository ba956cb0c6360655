// A decoder of YOLOv8's nine int8 outputs in the way C++ demos for boards are written: cell by cell, candidates become float one at
// a time, suppression class by class over all pairs. What the Python decoder is measured against; not used by the package.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

namespace {

struct Box {
    float x1, y1, x2, y2, score;
    int kind;
};

int8_t stored(float value, int zero, float scale) {
    return static_cast<int8_t>(std::min(127.f, std::max(-128.f, value / scale + zero)));
}

float real(int8_t value, int zero, float scale) { return (static_cast<float>(value) - static_cast<float>(zero)) * scale; }

float overlap(const Box &a, const Box &b) {
    float w = std::max(0.f, std::min(a.x2, b.x2) - std::max(a.x1, b.x1));
    float h = std::max(0.f, std::min(a.y2, b.y2) - std::max(a.y1, b.y1));
    float shared = w * h;
    float both = (a.x2 - a.x1) * (a.y2 - a.y1) + (b.x2 - b.x1) * (b.y2 - b.y1) - shared;
    return both <= 0.f ? 0.f : shared / both;
}

}  // namespace

// outputs: sides, scores, sums of each of three strides; sum may be null. Returns how many boxes are left in rows of six floats.
extern "C" int decode(const int8_t **outputs, const int *zeros, const float *scales, int size, int classes, float least, float limit,
                      float *rows, int most) {
    std::vector<Box> boxes;
    for (int part = 0; part < 3; part++) {
        const int stride = 8 << part, width = size / stride, cells = width * width;
        const int8_t *sides = outputs[3 * part], *scores = outputs[3 * part + 1], *sums = outputs[3 * part + 2];
        const int *zero = zeros + 3 * part;
        const float *scale = scales + 3 * part;
        const int8_t least_score = stored(least, zero[1], scale[1]), least_sum = stored(least, zero[2], scale[2]);
        for (int cell = 0; cell < cells; cell++) {
            if (sums && sums[cell] < least_sum) continue;
            int kind = -1;
            int8_t best = -128;
            for (int c = 0; c < classes; c++) {
                int8_t score = scores[c * cells + cell];
                if (score > least_score && score > best) {
                    best = score;
                    kind = c;
                }
            }
            if (kind < 0) continue;
            float distance[4];
            for (int side = 0; side < 4; side++) {
                float weights[16], all = 0, mean = 0;
                for (int bin = 0; bin < 16; bin++) {
                    weights[bin] = std::exp(real(sides[(side * 16 + bin) * cells + cell], zero[0], scale[0]));
                    all += weights[bin];
                }
                for (int bin = 0; bin < 16; bin++) mean += weights[bin] / all * bin;
                distance[side] = mean;
            }
            const float x = cell % width + 0.5f, y = cell / width + 0.5f;
            boxes.push_back({(x - distance[0]) * stride, (y - distance[1]) * stride, (x + distance[2]) * stride,
                             (y + distance[3]) * stride, real(best, zero[1], scale[1]), kind});
        }
    }
    std::stable_sort(boxes.begin(), boxes.end(), [](const Box &a, const Box &b) { return a.score > b.score; });
    std::vector<char> gone(boxes.size());
    std::set<int> kinds;
    for (const Box &box : boxes) kinds.insert(box.kind);
    for (int kind : kinds)
        for (size_t i = 0; i < boxes.size(); i++) {
            if (gone[i] || boxes[i].kind != kind) continue;
            for (size_t j = i + 1; j < boxes.size(); j++)
                if (!gone[j] && boxes[j].kind == kind && overlap(boxes[i], boxes[j]) > limit) gone[j] = 1;
        }
    int count = 0;
    for (size_t i = 0; i < boxes.size() && count < most; i++)
        if (!gone[i]) {
            const Box &b = boxes[i];
            float *row = rows + 6 * count++;
            row[0] = b.x1, row[1] = b.y1, row[2] = b.x2, row[3] = b.y2, row[4] = b.score, row[5] = static_cast<float>(b.kind);
        }
    return count;
}
