import test from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';

const folder = new URL('../static/css/', import.meta.url);
const css = readFileSync(new URL('tokens.css', folder), 'utf8');

function tokens(block) {
	return Object.fromEntries([...block.matchAll(/--([\w-]+):\s*(#[0-9a-f]{6})/gi)].map((m) => [m[1], m[2]]));
}

function luminance(hex) {
	const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255)
		.map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
	return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a, b) {
	const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
	return (high + 0.05) / (low + 0.05);
}

const [light, dark] = css.split('@media (prefers-color-scheme: dark)');
const themes = { light: tokens(light), dark: { ...tokens(light), ...tokens(dark) } };

test('text has AA contrast in both themes', () => {
	const pairs = [
		['text', 'surface'], ['text', 'ground'], ['text', 'raised'], ['text', 'hover'], ['text', 'accent-soft'], ['text', 'red-soft'], ['text', 'amber-soft'],
		['text-quiet', 'surface'], ['text-quiet', 'ground'], ['text-quiet', 'raised'], ['text-quiet', 'hover'], ['text-quiet', 'accent-soft'], ['text-quiet', 'amber-soft'],
		['accent', 'surface'], ['accent', 'accent-soft'], ['on-accent', 'accent'], ['on-accent', 'accent-hover'], ['on-own', 'own'],
		['amber', 'surface'], ['amber', 'amber-soft'], ['amber', 'accent-soft'], ['amber', 'hover'],
		['red', 'surface'], ['red', 'red-soft'], ['red', 'accent-soft'], ['red', 'hover'],
	];
	for (const [name, theme] of Object.entries(themes)) {
		for (const [fore, back] of pairs) {
			const ratio = contrast(theme[fore], theme[back]);
			assert.ok(ratio >= 4.5, `${name}: ${fore} on ${back} is ${ratio.toFixed(2)}`);
		}
	}
});

test('borders of controls and dots stand out', () => {
	for (const [name, theme] of Object.entries(themes)) {
		for (const fore of ['line-strong', 'green', 'accent']) {
			const ratio = contrast(theme[fore], theme.surface);
			assert.ok(ratio >= 3, `${name}: ${fore} on surface is ${ratio.toFixed(2)}`);
		}
	}
});

test('themes differ in colours and shadows alone: what fits in one fits in the other', () => {
	const [body] = dark.match(/^\s*\{\s*:root\s*\{[^}]*\}/);
	for (const [, name, value] of body.matchAll(/^\s*([\w-]+):\s*(.*);$/gm)) {
		assert.match(`${name}: ${value}`, /^--[\w-]+: #[0-9a-f]{6}$|^--shadow: /);
	}
	for (const file of readdirSync(folder)) {
		const told = readFileSync(new URL(file, folder), 'utf8').split('prefers-color-scheme').length - 1;
		assert.equal(told, file === 'tokens.css' ? 1 : 0, file);
	}
});
