// Wires the page together.

import { offerApiKey } from "./api-key.js";
import { judging } from "./judge.js";
import { showOperator } from "./operator.js";
import { playground } from "./playground.js";
import { tabs } from "./tabs.js";

offerApiKey();
showOperator();
const show = tabs(document.querySelector("[role=tablist]"));
const judge = judging();
playground({
  judge(text) {
    show("tab-judge");
    judge(text);
  },
});
