// Icons that only the console uses, on the 20 px grid of dom.js.

import { addShapes } from '../core/dom.js';

addShapes({
	list: ['M3.5 4.5h13v11h-13z', 'M8 4.5v11'],
	card: ['M3.5 4.5h13v11h-13z', 'M12 4.5v11'],
	search: ['M8.75 14.5a5.75 5.75 0 1 0 0-11.5 5.75 5.75 0 0 0 0 11.5z', 'M13 13l4 4'],
	transfer: ['M3.5 7h11', 'M11.5 4l3 3-3 3', 'M16.5 13h-11', 'M8.5 10l-3 3 3 3'],
	giveback: ['M4 7.5h8a4 4 0 0 1 0 8H8', 'M7 4.5l-3 3 3 3'],
	canned: ['M11 3L5 11h4l-1 6 6-8h-4z'],
	key: ['M7 13.5a3.25 3.25 0 1 0 0-6.5 3.25 3.25 0 0 0 0 6.5z', 'M10.2 10.2H17v2.6', 'M14 10.4v2'],
	shield: ['M10 3l5.5 2v4.5c0 3.4-2.3 6-5.5 7.5-3.2-1.5-5.5-4.1-5.5-7.5V5z', 'M7.5 10l1.8 1.8 3.4-3.6'],
	devices: ['M3 4.5h11v8H3z', 'M6.5 15.5h4', 'M12.5 8.5H17v7.5h-4.5z'],
});
