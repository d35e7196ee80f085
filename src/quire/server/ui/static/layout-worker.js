// Where nodes lie, worked out beside the page so that it never stutters: ForceAtlas2, told piece by piece.
import { Graph, forceAtlas2 } from "./vendor/forceatlas2-0.10.1.js";

let turn = 0;
onmessage = async ({ data }) => {
  const mine = ++turn;
  const graph = new Graph({ multi: true });
  for (const n of data.nodes) graph.addNode(n.key, { x: n.x, y: n.y, fixed: n.fixed, size: 4 });
  for (const [from, to] of data.edges) if (graph.hasNode(from) && graph.hasNode(to)) graph.addEdge(from, to);
  const settings = { ...forceAtlas2.inferSettings(graph), barnesHutOptimize: data.nodes.length > 800, gravity: 0.6, slowDown: 4 + Math.log(data.nodes.length + 1), adjustSizes: false };
  const began = Date.now();
  for (let done = 0; done < data.rounds && Date.now() - began < data.most; ) {
    const step = data.nodes.length > 1500 ? 3 : 10;
    forceAtlas2.assign(graph, { iterations: step, settings });
    done += step;
    const at = new Float32Array(data.nodes.length * 2);
    data.nodes.forEach((n, i) => { at[2 * i] = graph.getNodeAttribute(n.key, "x"); at[2 * i + 1] = graph.getNodeAttribute(n.key, "y"); });
    postMessage({ id: data.id, at, done: done >= data.rounds }, [at.buffer]);
    await new Promise((resolve) => setTimeout(resolve, 0));
    if (mine !== turn) return;
  }
  postMessage({ id: data.id, at: null, done: true });
};
