// What the console says about the fields of customers that an administrator has defined, in both languages.

import { addTexts } from '../core/i18n.js';

addTexts({
	'en': {
		'own.yes': 'Yes',
		'own.no': 'No',
		'own.none': 'Not known',
		'own.number': 'A number such as -12.5: at most 15 digits, and 6 behind the point',
		'own.refused': '“{label}” was not accepted, and nothing was saved.',
		'own.gone': 'The fields of customers have changed meanwhile. Cancel, and edit once more.',
		'card.place': 'Place',
	},
	'zh-CN': {
		'own.yes': '是',
		'own.no': '否',
		'own.none': '未知',
		'own.number': '数字，如 -12.5：最多 15 位，小数最多 6 位',
		'own.refused': '“{label}”的值无效，未保存任何更改。',
		'own.gone': '客户字段已被更改，请取消后重新编辑。',
		'card.place': '所在地',
	},
});
