// The logo in the form of a site: a file that is too large is told before it
// is sent, and the preview shows the one that will be stored.

import { setAttr, setText } from '../core/dom.js';

/**
 * What is wrong with the size of a file, '' for nothing. Pure.
 * @param {{size: number}|undefined} file @param {number} most bytes @param {string} words with {size} in the place of the file's
 */
export function tooLarge(file, most, words) {
	return file && file.size > most ? words.replace('{size}', file.size) : '';
}

/** @param {HTMLFormElement} form @param {HTMLImageElement} shown in the preview */
export function followLogo(form, shown) {
	const { logo: field, logo_remove: remove } = form.elements;
	const stored = form.querySelector('.logo-now img')?.getAttribute('src') ?? '';
	const said = form.querySelector('#e-logo');
	let reading = 0; // the file that was chosen last counts
	const show = (at) => {
		setAttr(shown, 'src', at || null);
		shown.hidden = !at;
	};
	const draw = () => {
		const now = ++reading;
		const [file] = field.files;
		if (!file) {
			show(remove?.checked ? '' : stored);
			return;
		}
		const reader = new FileReader(); // the policy of the pages takes no other address of a file
		reader.addEventListener('load', () => { if (now === reading) show(reader.result); });
		reader.addEventListener('error', () => { if (now === reading) show(stored); });
		reader.readAsDataURL(file);
	};
	field.addEventListener('change', () => {
		const wrong = tooLarge(field.files[0], Number(field.dataset.most), field.dataset.large);
		if (wrong) field.value = '';
		setText(said, wrong);
		setAttr(said, 'data-testid', wrong && 'error-logo');
		setAttr(field, 'aria-invalid', wrong !== '' && 'true');
		field.closest('.field-row').classList.toggle('bad', wrong !== '');
		draw();
	});
	remove?.addEventListener('change', draw);
	shown.addEventListener('error', () => { shown.hidden = true; });
	draw();
}
