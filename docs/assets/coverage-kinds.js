// Layers of tools/sweep that are not all equal.
// Columns, those with a select box, then a row a line. docs/assets/tables.js shows it.
table(["layer", "networks", "identical", "at most, steps", "then", "the simulator's way"], ["the simulator's way"], [
["depthwise ConvSigmoid", "4", "45.37 %", "2", "99.99 %", "stored, exact"],
["ConvTransposeTanh", "1", "51.38 %", "2", "100.00 %", "exact, stored"],
["depthwise ConvHardSigmoid", "2", "54.91 %", "1", "100.00 %", "stored, exact"],
["ConvHardSigmoid", "10", "63.68 %", "1", "99.99 %", "stored, exact"],
["depthwise ConvTransposeElu", "1", "68.24 %", "1", "100.00 %", "stored"],
["ConvTransposeSigmoid", "4", "69.40 %", "1", "99.99 %", "stored, exact"],
["depthwise ConvLeakyRelu", "6", "72.75 %", "1", "99.97 %", "stored, exact"],
["ConvTransposeexMish", "1", "73.67 %", "1", "99.98 %", "stored"],
["ConvTransposeHardSwish", "1", "73.93 %", "1", "100.00 %", "stored"],
["ConvTransposeLeakyRelu", "2", "74.83 %", "1", "99.99 %", "stored, exact"],
["ConvTransposeSoftplus", "1", "75.09 %", "1", "100.00 %", "exact, stored"],
["depthwise ConvExSwish", "4", "76.62 %", "1", "99.97 %", "stored, exact"],
["ConvTransposePRelu", "4", "76.81 %", "1", "99.97 %", "stored, exact"],
["depthwise ConvHardSwish", "3", "77.23 %", "2", "99.91 %", "stored, exact"],
["depthwise ConvTransposeHardSwish", "2", "78.18 %", "1", "99.83 %", "stored"],
["ConvTransposeexSwish", "2", "78.28 %", "2", "99.99 %", "stored, exact"],
["ConvTransposeHardSigmoid", "3", "78.97 %", "1", "99.99 %", "stored, exact"],
["depthwise ConvTransposeHardSigmoid", "1", "79.05 %", "1", "99.95 %", "stored"],
["Add", "16", "99.02 %", "1", "100.00 %", "operands"],
["ConvClip", "16", "99.51 %", "1", "99.99 %", "exact"],
["exNorm", "33", "99.68 %", "1", "100.00 %", "operands"],
["ConvSigmoid", "7", "99.88 %", "1", "100.00 %", "exact"],
["depthwise Conv", "25", "99.88 %", "1", "100.00 %", "exact"],
["ConvExSwish", "8", "99.90 %", "1", "99.97 %", "exact"]
])
