#!/usr/bin/env bash
# Makes the bundles in src/quire/server/ui/static/vendor from packages of npm. Nobody needs to run it: what it makes is
# committed, with a digest of each file in vendor.json, and a test compares them. Run it to take newer versions, in an
# empty folder, with node and npm; then write the new names, digests and licences.
set -euo pipefail

npm init -y >/dev/null
npm install --silent preact@11.2.0 htm@3.1.1 @preact/signals@2.11.4 sigma@3.0.3 graphology@0.26.0 \
    graphology-layout-forceatlas2@0.10.1 codemirror@6.0.2 @codemirror/lang-sql@6.10.0 uplot@1.6.32 \
    axe-core@4.14.0 esbuild@0.28.2

cat >preact.js <<'JS'
export { h, render, Fragment, createContext } from "preact";
export { useState, useEffect, useRef, useMemo, useCallback, useContext, useLayoutEffect } from "preact/hooks";
export { signal, computed, effect, batch, useSignal, useComputed } from "@preact/signals";
import { h } from "preact"; import htm from "htm";
export const html = htm.bind(h);
JS
cat >codemirror.js <<'JS'
export { EditorView, keymap, lineNumbers, highlightActiveLine, drawSelection, Decoration, placeholder, hoverTooltip } from "@codemirror/view";
export { EditorState, Compartment, StateEffect, StateField, Prec } from "@codemirror/state";
export { basicSetup, minimalSetup } from "codemirror";
export { sql, SQLDialect, PostgreSQL, StandardSQL } from "@codemirror/lang-sql";
export { autocompletion, completionKeymap, acceptCompletion, startCompletion } from "@codemirror/autocomplete";
export { linter, lintGutter, setDiagnostics } from "@codemirror/lint";
export { HighlightStyle, syntaxHighlighting, StreamLanguage, indentUnit } from "@codemirror/language";
export { tags } from "@lezer/highlight";
JS
cat >sigma.js <<'JS'
export { default as Sigma } from "sigma";
export { default as Graph } from "graphology";
JS
cat >forceatlas2.js <<'JS'
export { default as Graph } from "graphology";
export { default as forceAtlas2 } from "graphology-layout-forceatlas2";
JS
echo 'export { default as uPlot } from "uplot";' >uplot.js

for file in preact:preact-11.2.0 codemirror:codemirror-6.0.2 sigma:sigma-3.0.3 forceatlas2:forceatlas2-0.10.1 uplot:uplot-1.6.32; do
    npx esbuild "${file%%:*}.js" --bundle --format=esm --minify --target=es2022 --legal-comments=none \
        --outfile="out/${file##*:}.js"
done
cp node_modules/uplot/dist/uPlot.min.css out/uplot-1.6.32.css
cp node_modules/axe-core/axe.min.js out/axe-4.14.0.js
sha256sum out/*
