// What only the landing page says, in both languages.

import { addTexts } from './core/i18n.js';

addTexts({
	'en': {
		'landing.title': 'Desk',
		'landing.lead': 'A customer-service chat server that is running on this machine.',
		'landing.customer': 'Customer page',
		'landing.customerHint': 'Write as a visitor. The assistant answers; ask for a person to reach an agent.',
		'landing.console': 'Agent console',
		'landing.consoleHint': 'Log in with the account that was printed when the server started first.',
		'landing.shop': 'Demo shop',
		'landing.shopHint': 'The same chat as a button on a page, embedded with one line.',
		'landing.wall': 'Wall',
		'landing.wallHint': 'Who waits, who answers, and reports. For supervisors.',
		'landing.admin': 'Administration',
		'landing.adminHint': 'Agents, sites, groups, bots and canned replies. For administrators.',
		'landing.tip': 'Open customer page and console, side by side, to see a conversation from both ends.',
	},
	'zh-CN': {
		'landing.title': 'Desk',
		'landing.lead': '正在这台机器上运行的客服聊天服务器。',
		'landing.customer': '客户页面',
		'landing.customerHint': '以访客身份发消息。先由助手回答，也可以请求人工客服。',
		'landing.console': '客服工作台',
		'landing.consoleHint': '使用服务器首次启动时打印的账号登录。',
		'landing.shop': '演示商店',
		'landing.shopHint': '同样的聊天，只需一行代码即可作为按钮嵌入网页。',
		'landing.wall': '监控大屏',
		'landing.wallHint': '谁在等待、谁在接待，以及报表。供主管使用。',
		'landing.admin': '管理后台',
		'landing.adminHint': '客服账号、站点、组、机器人和快捷回复。供管理员使用。',
		'landing.tip': '同时打开客户页面和工作台，就能看到对话的两端。',
	},
});
