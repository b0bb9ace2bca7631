// A site's colour as the page's accent. The colour is taken as it is where it
// can be read, and made darker or lighter where it can not (AA, 4.5 to 1).

const enough = 4.6; // 4.5 and the rounding to whole values

/** [r, g, b] of #rrggbb, null for anything else. */
export function parse(hex) {
	const m = /^#([0-9a-f]{6})$/i.exec(hex ?? '');
	return m ? [0, 2, 4].map((i) => parseInt(m[1].slice(i, i + 2), 16)) : null;
}

const toHex = (rgb) => `#${rgb.map((v) => Math.round(v).toString(16).padStart(2, '0')).join('')}`;

function luminance(rgb) {
	const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
	return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export function contrast(a, b) {
	const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
	return (high + 0.05) / (low + 0.05);
}

const mix = (a, b, share) => a.map((v, i) => v + (b[i] - v) * share);

/**
 * The values of the accent's variables for a colour.
 * @param {string} colour #rrggbb
 * @param {boolean} dark
 * @returns {Object<string, string>|null} null when the colour is none
 */
export function accentOf(colour, dark) {
	const wanted = parse(colour);
	if (!wanted) return null;
	const surface = dark ? [23, 29, 29] : [255, 255, 255]; // --surface
	const ink = dark ? [255, 255, 255] : [0, 0, 0];
	let accent = wanted;
	let soft = mix(surface, accent, dark ? 0.2 : 0.12);
	for (let share = 0.05; share <= 1 && (contrast(accent, surface) < enough || contrast(accent, soft) < enough); share += 0.05) {
		accent = mix(wanted, ink, share);
		soft = mix(surface, accent, dark ? 0.2 : 0.12);
	}
	const on = [[255, 255, 255], [6, 20, 20]].sort((a, b) => contrast(b, accent) - contrast(a, accent))[0];
	const hover = mix(accent, ink, 0.15);
	return { accent: toHex(accent), 'accent-hover': toHex(contrast(on, hover) >= enough ? hover : accent), 'accent-soft': toHex(soft), 'on-accent': toHex(on), own: toHex(accent), 'on-own': toHex(on) };
}

/** Gives the document a site's colour, now and after a change of the theme. */
export function useColour(colour, doc = document) {
	const query = matchMedia('(prefers-color-scheme: dark)');
	const apply = () => {
		for (const [name, value] of Object.entries(accentOf(colour, query.matches) ?? {})) doc.documentElement.style.setProperty(`--${name}`, value);
	};
	apply();
	query.addEventListener('change', apply);
}
