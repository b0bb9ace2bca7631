import test from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { accentOf, contrast, parse } from '../static/js/core/theme.js';

const css = readFileSync(new URL('../static/css/tokens.css', import.meta.url), 'utf8');
const surfaces = [...css.matchAll(/--surface:\s*(#[0-9a-f]{6})/gi)].map((m) => parse(m[1])); // light, dark

test('whatever colour a site has, it can be read in both themes', () => {
	const colours = ['#000000', '#ffffff', '#ffff00', '#ff0000', '#00ff00', '#0000ff', '#808080', '#0a716c', '#5b3cc4', '#fff3d6'];
	for (let i = 0; i < 64; i++) colours.push(`#${((i * 2654435761) % 0x1000000).toString(16).padStart(6, '0')}`);
	for (const colour of colours) {
		for (const dark of [false, true]) {
			const look = accentOf(colour, dark);
			const surface = surfaces[dark ? 1 : 0];
			for (const [fore, back, least] of [
				[look.accent, surface, 4.5], [look.accent, parse(look['accent-soft']), 4.5],
				[look['on-accent'], parse(look.accent), 4.5], [look['on-accent'], parse(look['accent-hover']), 4.5], [look['on-own'], parse(look.own), 4.5],
			]) {
				const ratio = contrast(parse(fore), back);
				assert.ok(ratio >= least, `${colour}, ${dark ? 'dark' : 'light'}: ${fore} on ${back} is ${ratio.toFixed(2)}`);
			}
		}
	}
});

test('a colour that can be read is taken as it is, one that is none is not', () => {
	assert.equal(accentOf('#5b3cc4', false).accent, '#5b3cc4');
	assert.notEqual(accentOf('#5b3cc4', true).accent, '#5b3cc4');
	for (const none of ['', undefined, 'red', '#fff', 'url(x)', '#12345g']) assert.equal(accentOf(none, false), null);
});
